"""The PIQI-RCP paper: RCP, QI-RCP, PIQI-RCP and XCP, every figure and stated result."""
