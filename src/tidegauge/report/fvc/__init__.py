"""Charts and the page of lung-function forecasts."""
