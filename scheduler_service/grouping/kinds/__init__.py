"""One file for each family of workloads whose groups need more than a row of the table."""
