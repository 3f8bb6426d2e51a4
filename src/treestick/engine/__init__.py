"""Where chains run."""
