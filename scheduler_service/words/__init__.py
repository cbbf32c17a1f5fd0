"""What people read: the words of each state in one table, amounts and times in words. Every surface shows these."""
