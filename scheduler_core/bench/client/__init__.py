"""An outside client of the gateway beside our own: do both see the times that the gateway's metrics tell?"""
