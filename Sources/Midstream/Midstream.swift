// Midstream
