"""One run of an agent: workspace, budget, isolation, protocol, grade and record."""
