"""A. Munir, "Improving Flow Completion Times in Data Center Networks" (NUST, 2012): SDC and RACS."""
