"""Pure decisions about what a model is shown: estimate, view, cuts, plan, render."""
