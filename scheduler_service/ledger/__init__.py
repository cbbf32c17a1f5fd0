"""The book: the one mutable thing of the core, fed by events, with an undo journal.

Integer columns by row; a row number never decides anything (ties end in names). Planning writes
through the journal only and rolls back what it wrote.
"""
