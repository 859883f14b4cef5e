"""How a patient's lung capacity will fall, from one visit and one scan."""
