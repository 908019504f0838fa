"""TLS: key stores, contexts of OpenSSL, the server's side of connections, names in certificates."""
