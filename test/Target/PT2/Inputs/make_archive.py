"""Packs a JSON file as torch.export.save would: make_archive.py model.json archive.pt2 [name of the entry]."""

import sys
import zipfile

source, target = sys.argv[1:3]
entry = sys.argv[3] if len(sys.argv) > 3 else "net/models/model.json"
with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("net/archive_format", "pt2")
    archive.write(source, entry)
