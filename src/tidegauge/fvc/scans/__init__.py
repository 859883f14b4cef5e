"""From DICOM files to lung features; knows nothing of forecasts."""
