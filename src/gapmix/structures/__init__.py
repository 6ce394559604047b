"""What a component is: the shape of its covariance, its M step and its priors."""
