"""Where a fit begins: k-means on rows with gaps, starts compared, components regrouped."""
