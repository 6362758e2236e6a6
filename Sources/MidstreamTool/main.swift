print("midstream")
