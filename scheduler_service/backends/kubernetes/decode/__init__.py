"""Raw objects of the API in, values of the model out. Pure: no I/O, no clock; all that a pod asks is computed here."""
