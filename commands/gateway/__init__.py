"""The gateway: an OpenAI-compatible server on loopback that journals every request before and after it is answered."""
