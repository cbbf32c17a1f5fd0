"""An authority of our own and the short-lived certificates it signs. Rotates so that no handshake ever fails.

Rules: 1. A new authority is published before it signs: first `next`, trusted by everybody, then `current`. 2. The one
before stays trusted until what it signed has run out. 3. The clock is passed in.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = timedelta(days=30)
PUBLISHED_BEFORE = timedelta(hours=1)
"""How long a new authority is trusted before it signs."""
SERVING_LIFE = timedelta(hours=24)
SKEW = timedelta(minutes=5)
"""Clocks of other machines may be behind by so much."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that may sign, with its key, both as PEM."""

    certificate: bytes
    key: bytes

    @property
    def parsed(self) -> x509.Certificate:
        """The certificate, parsed; raises ValueError where it is none."""
        return x509.load_pem_x509_certificate(self.certificate)


@dataclass(frozen=True, slots=True)
class Authorities:
    """Who signs, who signs next, and who signed before."""

    current: Authority
    next: Authority | None = None
    previous: bytes = b""

    def bundle(self) -> bytes:
        """Return all certificates to trust, as PEM."""
        following = self.next.certificate if self.next is not None else b""
        parts = (self.current.certificate, following, self.previous)
        return b"".join(part.strip() + b"\n" for part in parts if part.strip())


@dataclass(frozen=True, slots=True)
class Serving:
    """A server certificate with its key as PEM, and when to renew it."""

    certificate: bytes
    key: bytes
    renew_at: datetime


def advanced(known: Authorities | None, now: datetime) -> Authorities:
    """Return the authorities as they should be now; the same object where nothing is to do."""
    if known is None or not _is_good(known.current, now):
        return Authorities(new_authority(now))
    current = known
    if known.next is not None and not _is_good(known.next, now):
        current = replace(current, next=None)
    if current.next is None and _age(current.current, now) >= AUTHORITY_LIFE / 2:
        current = replace(current, next=new_authority(now))
    elif current.next is not None and _age(current.next, now) >= PUBLISHED_BEFORE:
        current = Authorities(current.next, previous=current.current.certificate)
    if current.previous and _is_over(current.previous, now):
        current = replace(current, previous=b"")
    return current


def new_authority(now: datetime) -> Authority:
    """Return a fresh authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kai-webhook")])
    certificate = (
        _builder(name, name, now, AUTHORITY_LIFE)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(_pem(certificate), _key_pem(key))


def serving_certificate(authority: Authority, names: tuple[str, ...], now: datetime) -> Serving:
    """Return a certificate for these host names and addresses, valid for a day at most."""
    issuer = authority.parsed
    signer = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is of another kind")
    key = ec.generate_private_key(ec.SECP256R1())
    life = min(SERVING_LIFE, issuer.not_valid_after_utc - now)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    certificate = (
        _builder(subject, issuer.subject, now, life)
        .public_key(key.public_key())
        .add_extension(x509.SubjectAlternativeName([_general(n) for n in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return Serving(_pem(certificate) + authority.certificate, _key_pem(key), now + life / 2)


def _builder(
    subject: x509.Name, issuer: x509.Name, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + life)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _is_good(authority: Authority, now: datetime) -> bool:
    """Whether it can be read, its key fits it, and it lives on for a serving certificate's time."""
    try:
        certificate = authority.parsed
        key = serialization.load_pem_private_key(authority.key, password=None)
    except (ValueError, TypeError):
        return False
    fits = (
        isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == certificate.public_key()
    )
    begun = certificate.not_valid_before_utc <= now
    return fits and begun and now + SERVING_LIFE / 2 < certificate.not_valid_after_utc


def _is_over(certificate: bytes, now: datetime) -> bool:
    try:
        return x509.load_pem_x509_certificate(certificate).not_valid_after_utc <= now
    except ValueError:
        return True


def _age(authority: Authority, now: datetime) -> timedelta:
    return now - (authority.parsed.not_valid_before_utc + SKEW)
