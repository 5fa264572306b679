"""The special pages of the zoo, one file per family of behaviours."""
