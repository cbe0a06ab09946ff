"""The pastimes of the demo shop's shoppers, and the goods that go with them. Data only."""

from dataclasses import dataclass

from memrerank.data.demo.vocabulary import (
    HOME,
    OFFICE,
    PATIO,
    PETS,
    SPORTS,
    TOOLS,
    TOYS,
    Value,
)


@dataclass(frozen=True)
class Pastime:
    """What somebody spends their free time on, and the goods that people buy for it."""

    use: Value
    goods: dict[str, tuple[str, ...]]  # nouns by category


PASTIMES = (
    Pastime(
        Value(
            ("for Camping", "for Campers", "for Camping Trips"), "Made for nights at the campsite."
        ),
        {
            SPORTS: ("Sleeping Bag", "Camp Stove", "Hiking Tent"),
            HOME: ("Enamel Mug", "Insulated Cooler"),
            TOYS: ("Card Game",),
            PETS: ("Folding Dog Bed",),
            PATIO: ("Folding Chair", "Fire Pit"),
            TOOLS: ("Multi Tool", "Lantern"),
        },
    ),
    Pastime(
        Value(("for Running", "for Runners", "for Jogging"), "Made for runners who train daily."),
        {
            SPORTS: ("Hydration Belt", "Compression Socks", "Reflective Vest"),
            HOME: ("Shoe Rack", "Water Bottle"),
            PETS: ("Hands-Free Dog Leash",),
            OFFICE: ("Training Journal",),
            TOOLS: ("Clip-On Light",),
        },
    ),
    Pastime(
        Value(("for Gaming", "for Gamers", "for Gaming Rooms"), "Made for long gaming sessions."),
        {
            TOYS: ("Strategy Board Game", "Dice Set", "Collectible Figure"),
            HOME: ("Bean Bag Chair", "Wall Poster"),
            OFFICE: ("Desk Chair", "Desk Mat"),
            SPORTS: ("Foosball Table",),
            TOOLS: ("LED Light Strip",),
        },
    ),
    Pastime(
        Value(("for Cooking", "for Home Cooks", "for the Kitchen"), "Made for busy home kitchens."),
        {
            HOME: ("Chef Knife", "Cast Iron Skillet", "Cutting Board", "Spice Rack"),
            TOYS: ("Play Food Set",),
            OFFICE: ("Recipe Binder",),
            PATIO: ("Barbecue Smoker", "Herb Planter"),
            TOOLS: ("Knife Sharpener",),
        },
    ),
    Pastime(
        Value(("for Musicians", "for Music Studios", "for Band Practice"), "Made for musicians."),
        {
            TOYS: ("Ukulele", "Karaoke Set"),
            HOME: ("Vinyl Record Shelf", "Guitar Wall Hanger"),
            OFFICE: ("Sheet Music Folder", "Sheet Music Stand"),
            TOOLS: ("Soundproof Foam Panels",),
            SPORTS: ("Drumstick Bag",),
        },
    ),
    Pastime(
        Value(("for Nursery", "for Baby Room", "for New Parents"), "Made for homes with a baby."),
        {
            HOME: ("Crib Sheet", "Diaper Caddy", "Rocking Chair Cushion"),
            TOYS: ("Stacking Rings", "Plush Rattle"),
            TOOLS: ("Cabinet Safety Locks", "Night Light"),
            SPORTS: ("Stroller Bag",),
            OFFICE: ("Milestone Album",),
        },
    ),
    Pastime(
        Value(("for Travel", "for Travelers", "for Air Travel"), "Made for frequent flyers."),
        {
            HOME: ("Packing Cubes", "Suitcase", "Neck Pillow"),
            OFFICE: ("Passport Wallet", "Notebook"),
            TOYS: ("Pocket Chess",),
            PETS: ("Pet Carrier",),
            SPORTS: ("Daypack",),
            TOOLS: ("Luggage Scale",),
        },
    ),
    Pastime(
        Value(("for Fishing", "for Anglers", "for Fishing Boats"), "Made for days on the lake."),
        {
            SPORTS: ("Tackle Box", "Casting Rod", "Wading Boots", "Landing Net"),
            HOME: ("Fillet Knife", "Cooler Bag"),
            TOYS: ("Magnetic Pond Game",),
            PATIO: ("Shade Canopy",),
            TOOLS: ("Needle Nose Pliers",),
        },
    ),
    Pastime(
        Value(("for Cycling", "for Cyclists", "for Bike Rides"), "Made for cyclists on the road."),
        {
            SPORTS: ("Helmet", "Padded Shorts", "Handlebar Bag", "Tire Pump"),
            HOME: ("Garage Wall Hook",),
            PETS: ("Dog Basket",),
            TOOLS: ("Chain Tool", "Hex Key Set"),
            OFFICE: ("Route Logbook",),
        },
    ),
    Pastime(
        Value(("for Gardening", "for Gardeners", "for the Garden"), "Made for work in the garden."),
        {
            PATIO: ("Pruning Shears", "Raised Bed", "Watering Can", "Seed Starter Tray"),
            HOME: ("Apron", "Vase"),
            TOOLS: ("Hose Nozzle", "Kneeling Pad"),
            OFFICE: ("Planting Calendar",),
            TOYS: ("Bug Catcher Kit",),
        },
    ),
    Pastime(
        Value(("for Yoga", "for Meditation", "for Yoga Classes"), "Made for a calm yoga practice."),
        {
            SPORTS: ("Exercise Mat", "Foam Block", "Stretch Strap"),
            HOME: ("Floor Cushion", "Incense Holder", "Tea Kettle"),
            OFFICE: ("Gratitude Journal",),
            PATIO: ("Buddha Statue",),
            TOYS: ("Mandala Puzzle",),
        },
    ),
    Pastime(
        Value(
            ("for Woodworking", "for the Workshop", "for Carpentry"), "Made for the dusty workshop."
        ),
        {
            TOOLS: ("Cordless Drill", "Chisel Set", "Bar Clamp", "Orbital Sander"),
            HOME: ("Shop Apron",),
            OFFICE: ("Carpenter Pencils", "Drafting Ruler"),
            PATIO: ("Birdhouse Kit",),
            TOYS: ("Model Ship Kit",),
        },
    ),
)

# What people of every pastime buy now and then.
PLAIN_GOODS: dict[str, tuple[str, ...]] = {
    SPORTS: ("Gym Towel", "Jump Rope"),
    HOME: ("Bath Towels", "Storage Bins", "Picture Hanger"),
    TOYS: ("Building Blocks", "Birthday Balloons"),
    PETS: ("Cat Litter Scoop", "Dog Treats", "Food Bowl", "Cat Scratcher"),
    OFFICE: ("Ballpoint Pens", "Printer Paper", "Sticky Notes"),
    PATIO: ("Doormat", "Extension Hose"),
    TOOLS: ("Light Bulbs", "Duct Tape", "Screw Assortment"),
}
