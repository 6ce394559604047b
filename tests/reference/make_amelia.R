# Fit one Gaussian to each table with holes by the EM of the package Amelia and
# write its mean and covariance, in the table's own units.
#
# Run from this folder:  Rscript make_amelia.R
#
# What the options are for:
#   boot.type = "none"  the EM sees the table itself, not a resample of it
#   empri = 0           no ridge prior
#   autopri = 0         and none switched on when the EM seems to stall
#   startvals = 1       start at mean 0, identity covariance (standardized)
#   tolerance           the EM stops once no entry of the standardized mean or
#                       covariance moved by more than this in one step
#   emburn = c(0, N)    never more than N steps
# The covariance is the maximum-likelihood one (divisor n, not n - 1).

suppressPackageStartupMessages(library(Amelia))

tolerance <- 1e-13
most.steps <- 100000

cat(R.version.string, "\n")
cat("Amelia", as.character(packageVersion("Amelia")), "\n")

for (name in c("iris", "wine", "diabetes", "linnerud", "breast_cancer")) {
  x <- as.matrix(read.csv(paste0(name, ".csv"), check.names = FALSE))
  set.seed(1)  # only the imputations, which are not used, are random
  fit <- suppressWarnings(amelia(
    x, m = 1, p2s = 0, boot.type = "none", empri = 0, autopri = 0,
    startvals = 1, tolerance = tolerance, emburn = c(0, most.steps)
  ))
  stopifnot(identical(fit$code, 1))
  steps <- nrow(fit$iterHist[[1]])
  stopifnot(fit$iterHist[[1]][steps, 1] == 0)  # it stopped because it converged

  # fit$mu and fit$covMatrices are those of the table as Amelia prepares it:
  # every column minus the mean of its observed cells and divided by their
  # standard deviation (sd, divisor n - 1), and the columns sorted by their
  # number of holes.  The dimnames of fit$mu and fit$covMatrices do not follow
  # that sorting, so they are not used.  The preparation is run again to take
  # the very means, deviations and column order from it, and to undo both.
  prepared <- Amelia:::amelia.prep(
    x, m = 1, p2s = 0, empri = 0, autopri = 0, emburn = c(0, 0),
    boot.type = "none", incheck = FALSE
  )
  back <- order(prepared$p.order)
  sd <- prepared$scaled.sd
  mean <- prepared$scaled.mu + sd * fit$mu[back, 1]
  covariance <- fit$covMatrices[back, back, 1] * outer(sd, sd)
  # The last sweep leaves rounding-size asymmetry.
  covariance <- (covariance + t(covariance)) / 2

  header <- paste(colnames(x), collapse = ",")
  digits <- function(v) paste(sprintf("%.17g", v), collapse = ",")
  writeLines(c(header, digits(mean)), paste0(name, "_mean.csv"))
  writeLines(c(header, apply(covariance, 1, digits)),
             paste0(name, "_covariance.csv"))
  cat(sprintf("%s: %d steps\n", name, steps))
}
