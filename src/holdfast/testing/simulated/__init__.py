"""The simulated platform: a pretend chat service and its doors, for tests, demos and bot authors.

`ChatService` is the vendor; `SimulatedPlatform` is its door in the same process, and
`RemoteSimulatedPlatform` the same door over HTTP, to a vendor that outlives the gateway.
"""
