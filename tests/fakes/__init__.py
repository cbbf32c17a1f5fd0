"""Doubles that keep the contract of what they stand for."""
