"""The cards as widgets: one ES module, drawn by the same code as the lab extension's panel."""
