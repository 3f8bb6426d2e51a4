"""What draws say: prediction and density of new data, diagnostics."""
