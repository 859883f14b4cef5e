"""Tables and folders of patients, as checked arrays; knows no model."""
