"""penstock: a laboratory for congestion control in data-centre networks."""
