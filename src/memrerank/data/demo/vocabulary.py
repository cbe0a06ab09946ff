"""The words of the demo shop: categories, brands and the traits of products. Data only.

Every brand is invented.
"""

from dataclasses import dataclass

ELECTRONICS = "Electronics"
BEAUTY = "Beauty_and_Personal_Care"
SPORTS = "Sports_and_Outdoors"
HOME = "Home_and_Kitchen"
TOYS = "Toys_and_Games"
PETS = "Pet_Supplies"
OFFICE = "Office_Products"
PATIO = "Patio_Lawn_and_Garden"
TOOLS = "Tools_and_Home_Improvement"

OTHER_CATEGORIES = (SPORTS, HOME, TOYS, PETS, OFFICE, PATIO, TOOLS)


@dataclass(frozen=True)
class Value:
    """One value of a trait: how titles put it (the first way most often), and a sentence."""

    titles: tuple[str, ...]
    sentence: str

    @property
    def name(self) -> str:
        """The commonest way to say it."""
        return self.titles[0]


BRANDS: dict[str, tuple[str, ...]] = {
    ELECTRONICS: (
        "Norvane", "Veltrix", "Quillon", "Tessaro", "Brimwell",
        "Ardenna", "Kovalo", "Lumery", "Sundral", "Pentiva",
    ),
    BEAUTY: (
        "Maravelle", "Oluna", "Fennic", "Saibelle", "Thornberry",
        "Pureva", "Cassiane", "Willowmere", "Isolde", "Junivera",
    ),
    "": (
        "Halbrook", "Dunmore", "Ostara", "Pellwood", "Riverton",
        "Stavely", "Marlo", "Greyfell", "Ambrick", "Lindqvist",
    ),
}  # fmt: skip

TIERS = (
    Value(("Budget", "Affordable", "Value"), "An affordable pick at a low price."),
    Value(("Everyday", "Classic", "Standard"), "A dependable choice at a fair price."),
    Value(("Premium", "Luxury", "Deluxe"), "A premium product with a luxury feel."),
)

# Traits that titles show, by category. A product has one value of each.
TRAITS: dict[str, dict[str, tuple[Value, ...]]] = {
    ELECTRONICS: {
        "style": (
            Value(("Retro", "Vintage", "Old-School"), "Its vintage look recalls the seventies."),
            Value(("Minimalist", "Sleek", "Slim"), "A sleek, uncluttered minimalist design."),
            Value(("Rugged", "Heavy Duty", "Tough"), "A rugged body that shrugs off drops."),
            Value(("Cute", "Kawaii", "Pastel"), "A cute pastel look with a kawaii charm."),
            Value(("RGB", "Neon", "Glowing"), "Colorful RGB lights glow in neon shades."),
            Value(("Floral", "Flower Print", "Botanical"), "Decorated with a botanical print."),
        ),
        "finish": (
            Value(("Bamboo", "Walnut Wood", "Wooden"), "Finished in real wood grain."),
            Value(("Brushed Aluminum", "Metal", "Steel"), "A cool brushed metal shell."),
            Value(("Matte Black", "All Black", "Stealth Black"), "All in black, nothing shines."),
            Value(("Clear", "Transparent", "See-Through"), "A see-through case shows the inside."),
            Value(("Leather", "Vegan Leather", "Tan Leather"), "Wrapped in soft stitched leather."),
            Value(("Fabric", "Woven Fabric", "Linen"), "Covered in soft woven fabric."),
            Value(("Marble", "White Marble", "Ceramic"), "A smooth stone look in white marble."),
            Value(("Rose Gold", "Pink Gold", "Copper"), "A warm metallic shine in rose gold."),
        ),
    },
    BEAUTY: {
        "ingredient": (
            Value(("Shea Butter", "Shea", "Raw Shea"), "Rich in unrefined shea butter."),
            Value(("Tea Tree", "Tea Tree Oil", "Melaleuca"), "With steam-distilled tea tree oil."),
            Value(("Aloe Vera", "Aloe", "Aloe Gel"), "Soothes with cooling aloe leaf juice."),
            Value(("Vitamin C", "Ascorbic Acid", "C Complex"), "Powered by stable vitamin C."),
            Value(("Charcoal", "Activated Charcoal", "Black Charcoal"), "Draws with charcoal."),
            Value(("Argan Oil", "Moroccan Argan", "Argan"), "Made with Moroccan argan oil."),
            Value(("Oatmeal", "Colloidal Oat", "Oat Milk"), "Gentle with colloidal oatmeal."),
            Value(("Green Tea", "Matcha", "Tea Leaf"), "Antioxidants from green tea leaves."),
            Value(("Honey", "Manuka Honey", "Royal Honey"), "Sweetened by raw manuka honey."),
            Value(("Snail Mucin", "Snail", "Snail Extract"), "Contains filtered snail mucin."),
        ),
        "scent": (
            Value(("Lavender", "French Lavender", "Lavender Fields"), "Smells of lavender."),
            Value(("Citrus", "Orange Zest", "Grapefruit"), "A bright scent of orange and lemon."),
            Value(("Vanilla", "Vanilla Bean", "Warm Vanilla"), "A cozy vanilla fragrance."),
            Value(("Unscented", "Fragrance Free", "No Perfume"), "Free of any fragrance."),
            Value(("Peppermint", "Mint", "Cool Mint"), "A cool tingle and scent of mint."),
            Value(("Sandalwood", "Cedarwood", "Woody"), "A deep woody scent of sandalwood."),
            Value(("Rose", "Rose Petal", "Damask Rose"), "The scent of fresh rose petals."),
            Value(("Coconut", "Tropical Coconut", "Pina Colada"), "A tropical coconut scent."),
        ),
        "ethos": (
            Value(("Vegan", "Plant-Based", "Cruelty Free"), "Vegan and never tested on animals."),
            Value(("Organic", "Certified Organic", "Natural"), "Certified organic."),
            Value(("Clinical", "Dermatologist Tested", "Medical"), "Tested by dermatologists."),
            Value(("Korean", "K-Beauty", "Seoul"), "A favorite of Korean beauty routines."),
            Value(("Zero Waste", "Refillable", "Plastic Free"), "In refillable packaging."),
        ),
    },
}

COLORS = ("Gray", "Navy", "Green", "White", "Red", "Teal", "Brown", "Beige")
SIZES = ("Small", "Medium", "Large", "Set of 2", "Compact", "XL")
