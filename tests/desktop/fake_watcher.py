"""A tray host and a notification server for tests, run by the system's Python on a private session bus.

Reads one JSON command a line from stdin and answers each with one JSON line on stdout. It owns
``org.kde.StatusNotifierWatcher`` as soon as it is told to (``own``), so that a test can be late or take it away.
"""

# The system's Python has dbus and gi; the project's has not, and neither package has types.
# pyright: basic, reportMissingImports=false, reportUntypedBaseClass=false, reportUntypedFunctionDecorator=false
# pyright: reportOptionalMemberAccess=false
# ruff: noqa: N802

import hashlib
import json
import sys

import dbus
import dbus.service
from dbus.mainloop.glib import DBusGMainLoop
from gi.repository import GLib

WATCHER = "org.kde.StatusNotifierWatcher"
ITEM = "org.kde.StatusNotifierItem"
MENU = "com.canonical.dbusmenu"
NOTICES = "org.freedesktop.Notifications"
PROPERTIES = "org.freedesktop.DBus.Properties"


class Watcher(dbus.service.Object):
    """Accepts tray icons and says that somebody shows them."""

    def __init__(self, bus):
        super().__init__(bus, "/StatusNotifierWatcher")
        self.bus = bus
        self.items = []
        self.registrations = 0
        self.tooltip_changes = 0
        self.icon_changes = 0

    @dbus.service.method(WATCHER, in_signature="s", sender_keyword="sender")
    def RegisterStatusNotifierItem(self, service, sender):
        name = sender if service.startswith("/") else str(service)
        self.registrations += 1
        if name not in self.items:
            self.items.append(name)
            self.bus.add_signal_receiver(self.on_new_icon, "NewIcon", ITEM, bus_name=name)
        self.StatusNotifierItemRegistered(name)

    @dbus.service.method(WATCHER, in_signature="s")
    def RegisterStatusNotifierHost(self, service):
        self.StatusNotifierHostRegistered()

    @dbus.service.method(PROPERTIES, in_signature="ss", out_signature="v")
    def Get(self, interface, name):
        return self.GetAll(interface)[name]

    @dbus.service.method(PROPERTIES, in_signature="s", out_signature="a{sv}")
    def GetAll(self, interface):
        return {
            "IsStatusNotifierHostRegistered": True,
            "ProtocolVersion": dbus.Int32(0),
            "RegisteredStatusNotifierItems": dbus.Array(self.items, signature="s"),
        }

    @dbus.service.signal(WATCHER, signature="s")
    def StatusNotifierItemRegistered(self, service):
        pass

    @dbus.service.signal(WATCHER)
    def StatusNotifierHostRegistered(self):
        pass

    def on_new_icon(self):
        self.icon_changes += 1


class Notifications(dbus.service.Object):
    """Shows nothing, and remembers what it was asked to show."""

    def __init__(self, bus, abilities):
        super().__init__(bus, "/org/freedesktop/Notifications")
        self.abilities = abilities
        self.last = 0
        self.shown = []

    @dbus.service.method(NOTICES, out_signature="as")
    def GetCapabilities(self):
        return dbus.Array(self.abilities, signature="s")

    @dbus.service.method(NOTICES, out_signature="ssss")
    def GetServerInformation(self):
        return ("fake", "tests", "1", "1.2")

    @dbus.service.method(NOTICES, in_signature="susssasa{sv}i", out_signature="u")
    def Notify(self, program, replaces, icon, summary, body, actions, hints, timeout):
        self.last = int(replaces) or self.last + 1
        self.shown.append(
            {
                "id": self.last,
                "replaces": int(replaces),
                "icon": str(icon),
                "summary": str(summary),
                "body": str(body),
                "actions": [str(word) for word in actions],
                "desktop-entry": str(hints.get("desktop-entry", "")),
                "urgency": int(hints.get("urgency", -1)),
            }
        )
        return dbus.UInt32(self.last)

    @dbus.service.signal(NOTICES, signature="us")
    def ActionInvoked(self, number, action):
        pass

    @dbus.service.signal(NOTICES, signature="uu")
    def NotificationClosed(self, number, reason):
        pass


class Driver:
    """Carries out a test's commands."""

    def __init__(self, bus):
        self.bus = bus
        self.watcher = None
        self.name = None
        self.notices = None
        self.notices_name = None

    def show_notices(self, abilities):
        self.notices_name = dbus.service.BusName(NOTICES, self.bus, do_not_queue=True)
        self.notices = Notifications(self.bus, abilities)
        return True

    def noticed(self):
        return self.notices.shown if self.notices is not None else []

    def choose(self, number, action):
        self.notices.ActionInvoked(dbus.UInt32(number), action)
        self.notices.NotificationClosed(dbus.UInt32(number), dbus.UInt32(2))
        return True

    def own(self):
        self.name = dbus.service.BusName(WATCHER, self.bus, do_not_queue=True)
        if self.watcher is None:
            self.watcher = Watcher(self.bus)
        self.watcher.items.clear()
        return True

    def leave(self):
        self.bus.release_name(WATCHER)
        self.name = None
        return True

    def counts(self):
        alive = [name for name in self.watcher.items if self.bus.name_has_owner(name)]
        return {
            "items": len(alive),
            "registrations": self.watcher.registrations,
            "icon_changes": self.watcher.icon_changes,
        }

    def item(self):
        name = self.live_item()
        if name is None:
            return None
        got = dbus.Interface(self.bus.get_object(name, "/StatusNotifierItem"), PROPERTIES).GetAll(ITEM)
        tip = got["ToolTip"]
        pixmaps = [(int(width), int(height), bytes(data)) for width, height, data in got["IconPixmap"]]
        return {
            "id": str(got["Id"]),
            "title": str(got["Title"]),
            "tooltip": "\n".join(part for part in (str(tip[2]), str(tip[3])) if part),
            "sizes": sorted(width for width, _, _ in pixmaps),
            "picture": hashlib.sha256(b"".join(data for _, _, data in sorted(pixmaps))).hexdigest(),
        }

    def menu(self):
        return self.entry(self.layout())

    def click(self, label):
        entry = self.find(self.entry(self.layout()), label)
        if entry is None or not entry["enabled"] or not entry["visible"]:
            return False
        self.menu_interface().Event(entry["id"], "clicked", dbus.Int32(0), dbus.UInt32(0))
        return True

    def activate(self):
        dbus.Interface(self.bus.get_object(self.live_item(), "/StatusNotifierItem"), ITEM).Activate(0, 0)
        return True

    def about_to_show(self):
        self.menu_interface().AboutToShow(0)
        return True

    def live_item(self):
        return next((name for name in self.watcher.items if self.bus.name_has_owner(name)), None)

    def menu_interface(self):
        name = self.live_item()
        got = dbus.Interface(self.bus.get_object(name, "/StatusNotifierItem"), PROPERTIES)
        return dbus.Interface(self.bus.get_object(name, str(got.Get(ITEM, "Menu"))), MENU)

    def layout(self):
        _, root = self.menu_interface().GetLayout(0, -1, dbus.Array([], signature="s"))
        return root

    def entry(self, node):
        number, values, children = node
        return {
            "id": int(number),
            "label": str(values.get("label", "")),
            "type": str(values.get("type", "standard")),
            "enabled": bool(values.get("enabled", True)),
            "visible": bool(values.get("visible", True)),
            "children": [self.entry(child) for child in children],
        }

    def find(self, entry, label):
        if entry["label"].replace("_", "").replace("&", "") == label:
            return entry
        return next((found for child in entry["children"] if (found := self.find(child, label))), None)


def main():
    DBusGMainLoop(set_as_default=True)
    driver = Driver(dbus.SessionBus())
    loop = GLib.MainLoop()

    def on_line(source, condition):
        line = sys.stdin.readline()
        if not line:
            loop.quit()
            return False
        command, *arguments = json.loads(line)
        try:
            answer = {"ok": getattr(driver, command)(*arguments)}
        except dbus.DBusException as error:
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        return True

    GLib.io_add_watch(sys.stdin, GLib.IO_IN | GLib.IO_HUP, on_line)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    loop.run()


if __name__ == "__main__":
    main()
