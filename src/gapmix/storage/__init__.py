"""Files that are whole or not there: atomic replacement, records of plain data and arrays."""
