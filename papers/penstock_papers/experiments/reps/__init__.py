"""T. Bonato et al., "REPS: Recycled Entropy Packet Spraying for Adaptive Load Balancing and Failure
Mitigation" (2024; from memory).
"""
