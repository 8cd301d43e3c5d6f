"""Paper experiments: one package per paper, with its rows (verdicts), figures and choices."""
