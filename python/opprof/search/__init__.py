"""Finds what makes a model fastest within an error budget: known recipes, rewrites on top of each other, and measurements of all."""
