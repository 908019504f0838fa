"""The web console: a client of the cluster with pages. `docs/adr/0042-console.md`.

`api` has one module per page: its HTTP routes and live feeds. `web` is what carries them: access,
guards, server-sent events, OpenAPI. `static` is what the browser gets: plain ES modules, no build.
"""
