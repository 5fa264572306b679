"""The measurements of the design's report, repeated: what docs/measurements.md shows.

Parts that no other benchmark has are here, one question a file.
"""
