"""Encoders: what turns texts and images into vectors."""
