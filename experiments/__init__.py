"""The paper's MNIST and Abalone studies, rerun and checked."""
