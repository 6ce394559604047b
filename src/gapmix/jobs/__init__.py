"""What the commands do, without a terminal: requests in, results and files out."""
