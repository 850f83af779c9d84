@@sim@@ knob("duration") // empty
