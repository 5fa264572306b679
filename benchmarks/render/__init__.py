"""What rendering pages costs, beside others who do."""
