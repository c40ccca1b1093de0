"""The experiment: what is run, where its results are kept, its statistics and its report."""
