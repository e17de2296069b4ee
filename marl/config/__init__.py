"""What a training run can be told: options as frozen dataclasses, filled from YAML files and flags.

The options stand in train_config.py and the other *_config.py files, one file per subject. reader.py, with options.py,
values.py, yaml_file.py and help.py, fills any such dataclass and knows nothing of training. autoscale.py replaces every
`auto` by a value for the device. `import marl.config` imports nothing: torch, yaml and numpy are loaded only by the
modules that need them. The package may import arena, opponents and the modules directly in marl/, but no other package
of marl.
"""
