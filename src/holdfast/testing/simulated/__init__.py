"""The simulated platform: a chat service for tests, demos and bot authors, and the platforms that
talk to it.

`ChatService` is the vendor; `SimulatedPlatform` talks to it in the same process, and
`RemoteSimulatedPlatform` over HTTP, to a vendor that outlives the gateway.
"""
