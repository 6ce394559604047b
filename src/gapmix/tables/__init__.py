"""Tables in and out: CSV, Parquet and data frames to a matrix with a schema, and back."""
