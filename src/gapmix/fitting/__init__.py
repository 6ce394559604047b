"""A fit as a function of records: what is asked for and rows go in, a fitted mixture comes out."""
