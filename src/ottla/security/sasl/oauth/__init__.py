"""OAUTHBEARER (KIP-255, KIP-768): signed tokens, the keys to check them with, where clients get
them."""
