// MidstreamTesting
