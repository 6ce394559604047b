"""Where blocks of rows run."""
