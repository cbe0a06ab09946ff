"""The kinds of product that the demo shop's queries ask for, and sundries. Data only.

The words of a kind and of its functions are those that queries use; no trait value shares a
word with them, so that a query cannot tell what its shopper likes.
"""

from dataclasses import dataclass

from memrerank.data.demo.vocabulary import BEAUTY, ELECTRONICS


@dataclass(frozen=True)
class Function:
    """What a product does, in a title's words and in a query's."""

    title: str
    query: str


@dataclass(frozen=True)
class Kind:
    """A sort of product. Each product of the kind has one of the functions."""

    nouns: tuple[str, ...]  # titles use any, queries the first
    functions: tuple[Function, ...]


def _kind(nouns: str, *functions: str) -> Kind:
    """Reads the short form of the table below: alternatives by `/`, title and query by `:`."""
    pairs = [function.split(": ") for function in functions]
    return Kind(tuple(nouns.split("/")), tuple(Function(title, query) for title, query in pairs))


KINDS: dict[str, tuple[Kind, ...]] = {
    ELECTRONICS: (
        _kind(
            "Wireless Earbuds/True Wireless Earbuds",
            "Noise Cancelling: that cancel noise",
            "40 Hour Battery: with long battery life",
        ),
        _kind(
            "Bluetooth Speaker/Portable Speaker",
            "Waterproof: that is waterproof",
            "Deep Bass: with deep bass",
        ),
        _kind(
            "Smartwatch/Smart Watch",
            "Heart Rate Monitor: that tracks heart rate",
            "Built-in GPS: with GPS",
        ),
        _kind(
            "Power Bank/Portable Charger",
            "Fast Charging: that charges fast",
            "Solar: that charges from the sun",
        ),
        _kind(
            "Headphones/Over-Ear Headphones",
            "Foldable: that fold up small",
            "With Microphone: with a good microphone",
        ),
        _kind(
            "Action Camera/Sports Camera",
            "4K: that records in 4K",
            "Image Stabilization: that keeps the picture steady",
        ),
        _kind(
            "Tablet Stand/Tablet Holder",
            "Adjustable Height: with adjustable height",
            "360 Rotating: that rotates",
        ),
        _kind(
            "Phone Mount/Phone Holder",
            "Magnetic: that holds with a magnet",
            "Clamp Grip: that clamps on",
        ),
        _kind(
            "E-Reader/Ebook Reader",
            "Glare-Free Screen: without screen glare",
            "Adjustable Backlight: with a backlight",
        ),
        _kind(
            "Mini Projector/Portable Projector",
            "WiFi: that connects over WiFi",
            "Auto Focus: that focuses by itself",
        ),
        _kind(
            "Walkie Talkies/Two-Way Radios",
            "Long Range: with long range",
            "Hands-Free: to use hands-free",
        ),
        _kind(
            "Security Camera/Surveillance Camera",
            "Night Vision: that sees at night",
            "Motion Alerts: that alerts me to motion",
        ),
        _kind(
            "Wireless Charger/Charging Pad",
            "3-in-1: for three devices at once",
            "Upright: that keeps the phone upright",
        ),
        _kind(
            "Digital Camera/Compact Camera",
            "Optical Zoom: with optical zoom",
            "Flip Screen: with a flip screen",
        ),
        _kind(
            "Voice Recorder/Audio Recorder",
            "Voice Activated: that starts when I speak",
            "64GB: with a lot of storage",
        ),
        _kind(
            "Digital Clock/LED Clock",
            "Dual Alarm: with two alarms",
            "Temperature Display: that shows the temperature",
        ),
        _kind(
            "Tablet/Android Tablet",
            "10 Inch: with a ten inch screen",
            "Stylus Included: that comes with a stylus",
        ),
        _kind(
            "Radio/FM Radio",
            "Hand Crank: with a hand crank",
            "Weather Alerts: with weather alerts",
        ),
        _kind(
            "Laptop Sleeve/Laptop Case",
            "Water Resistant: that keeps water out",
            "Extra Pockets: with extra pockets",
        ),
        _kind(
            "GPS Tracker/Location Tracker",
            "No Subscription: without a subscription",
            "Real Time: that reports in real time",
        ),
    ),
    BEAUTY: (
        _kind(
            "Body Lotion/Body Moisturizer",
            "Dry Skin: for dry skin",
            "Fast Absorbing: that absorbs fast",
        ),
        _kind("Shampoo/Hair Wash", "Color Safe: for colored hair", "Volumizing: that adds volume"),
        _kind(
            "Face Mask/Facial Mask",
            "Overnight: to leave on overnight",
            "Peel-Off: that peels off",
        ),
        _kind(
            "Lip Balm/Lip Butter",
            "SPF 15: with sun protection",
            "Chapped Lips: for chapped lips",
        ),
        _kind(
            "Hand Cream/Hand Lotion",
            "Non-Greasy: that is not greasy",
            "Cracked Hands: for cracked hands",
        ),
        _kind("Body Wash/Shower Gel", "Foaming: that foams well", "Back Acne: against back acne"),
        _kind(
            "Face Serum/Facial Serum",
            "Dark Spots: against dark spots",
            "Fine Lines: against fine lines",
        ),
        _kind(
            "Conditioner/Hair Conditioner",
            "Detangling: that detangles",
            "Frizz Control: against frizz",
        ),
        _kind(
            "Deodorant/Deodorant Stick",
            "Aluminum Free: without aluminum",
            "48 Hour: that lasts two days",
        ),
        _kind(
            "Face Cleanser/Facial Wash",
            "Oily Skin: for oily skin",
            "Makeup Removing: that takes off makeup",
        ),
        _kind(
            "Hair Mask/Hair Treatment",
            "Damaged Hair: for damaged hair",
            "Curly Hair: for curly hair",
        ),
        _kind(
            "Body Scrub/Exfoliating Scrub",
            "Cellulite: against cellulite",
            "Ingrown Hairs: against ingrown hairs",
        ),
        _kind("Night Cream/Night Moisturizer", "Firming: that firms", "Retinol: with retinol"),
        _kind(
            "Eye Cream/Under Eye Gel",
            "Dark Circles: against dark circles",
            "Puffiness: against puffy eyes",
        ),
        _kind(
            "Bar Soap/Soap Bar",
            "Sensitive Skin: for sensitive skin",
            "Pack of 6: in a pack of six",
        ),
        _kind(
            "Facial Toner/Face Toner",
            "Large Pores: for large pores",
            "Alcohol-Free: without alcohol",
        ),
        _kind(
            "Bath Bombs/Bath Fizzies",
            "Set of 12: as a set of twelve",
            "Sore Muscles: for sore muscles",
        ),
        _kind(
            "Shaving Cream/Shave Gel",
            "Razor Burn: against razor burn",
            "Thick Lather: with a thick lather",
        ),
        _kind(
            "Foot Cream/Foot Balm",
            "Cracked Heels: for cracked heels",
            "Callus Softening: that softens calluses",
        ),
        _kind(
            "Sunscreen/Sun Lotion",
            "SPF 50: with SPF 50",
            "Sweat Proof: that stays on when I sweat",
        ),
        _kind(
            "Dry Shampoo/Hair Powder",
            "No Residue: that leaves no residue",
            "Oily Roots: for oily roots",
        ),
        _kind(
            "Cuticle Oil/Nail Oil",
            "Brittle Nails: for brittle nails",
            "Brush Pen: with a brush pen",
        ),
    ),
}

# Small things that serve every pastime alike: they show taste, and nothing of the pastime.
SUNDRIES: dict[str, tuple[str, ...]] = {
    ELECTRONICS: (
        "USB-C Cable", "HDMI Cable", "Wall Charger", "USB Hub", "Memory Card Case",
        "Power Strip", "Mouse Pad", "Wireless Mouse", "Keyboard", "Cable Organizer",
        "Remote Control Holder", "Laptop Riser", "Webcam", "Desk Speaker Stand",
    ),
    BEAUTY: (),
}  # fmt: skip
