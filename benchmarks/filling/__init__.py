"""How well tables are filled: tables with holes, scores, stored records and the page of results."""
