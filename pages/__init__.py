"""The pages of the app, one thin file each; the file's name is its address."""
